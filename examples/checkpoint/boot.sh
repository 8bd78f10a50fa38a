#!/bin/sh
# Starts the agent and the computation when the machine boots. Try it with
#   fairwarning exec batch_0 -- sh boot.sh
rm -f paused # left by a program that no longer runs
fairwarning agent run --config agent.toml &
exec python3 work.py
