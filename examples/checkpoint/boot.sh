#!/bin/sh
# What the machine starts with: the agent, and the work. Try it with
#   fairwarning exec batch_0 -- sh boot.sh
rm -f paused # said by a program that no longer runs
fairwarning agent run --config agent.toml &
exec python3 work.py
