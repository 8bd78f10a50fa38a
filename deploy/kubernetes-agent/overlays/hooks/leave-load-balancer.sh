#!/bin/sh
# An example of a hook. It gets the event in FAIRWARNING_* variables and as JSON on standard input;
# the event is approved after it has exited with 0.
echo "$FAIRWARNING_EVENT_TYPE of $FAIRWARNING_MACHINE, done by $FAIRWARNING_DEADLINE"
