"""How much a handler is allowed, each with its reason. Real seconds, unless it says otherwise.

A correct handler that asks every second and takes some seconds to prepare stays well within all of
them, on a busy machine too; so does one that asks once a minute, where a minute is soon enough.
"""

# Until a program that was just started asks for the first time: virtual machines and interpreters
# take their time, and many may start at once here.
START_SECONDS = 60.0
# Between two requests. Once a minute is slow but, for notices of minutes, enough.
ASK_SECONDS = 75.0
# From the first reading of a notice to its approval, unless --prepare says otherwise. Real work may
# take minutes; a program under test is expected to have little to save.
PREPARE_SECONDS = 20.0
# Who approves for several machines this soon after reading of it cannot have asked the others.
HASTE_SECONDS = 5.0
# How long, after it was read, we look whether somebody else's event is approved.
OTHERS_SECONDS = 5.0
# How long an event that is meant to stand may be left to a handler before we approve it ourselves.
LEAVE_SECONDS = 5.0
# What has to be left of a notice when it is first read: less is no time to save anything.
LEFT_SECONDS = 5.0
# A fault is met by this many requests, and lasts at least so long (who asks again without a pause
# is found out by the endpoint's own limit), at most so long past the first request that met it
# (who asks once a minute need not meet three).
FAULTS_MET = 3
FAULT_SECONDS = 5.0
FAULT_LONGEST_SECONDS = 10.0
# The endpoint allows 5 requests a second and 10 at once (M17). What it refuses beyond that may
# happen once or twice, at a start; who gets it again and again asks too often.
RATE_REFUSALS = 2
# An approval may be repeated in case it was lost: a few times, then every few seconds.
REPEATS = 3
REPEAT_SECONDS = 4.0
QUIET_SECONDS = 12.0  # how long we count them
# Until a program has ended (5 s are its own, see `exec`) and been started again, on a machine that
# has much else to do.
OVER_SECONDS = 120.0
# A day without a request switches the feature off (M14); virtual seconds.
SILENCE_SECONDS = 24 * 3600 + 60.0
