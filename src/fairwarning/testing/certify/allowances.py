"""The limits for handlers, each with its reason, and the rules that apply in every trap.

Limits are in real seconds, unless stated otherwise. A correct handler that polls every second and
prepares for a few seconds stays well within all of them, even on a busy host. So does a handler
that polls once a minute, where that is enough.
"""

from fairwarning.testing.certify.environment import ME, Observations, ObservedEvent, TrapFailed

# From the start of a program to its first poll. Virtual machines and interpreters start slowly, and
# many programs may start at once.
START_SECONDS = 60.0
# Between two polls. Once a minute is slow, but enough for a notice of minutes.
POLL_SECONDS = 75.0
# A program that was not shown a new event in so many polls asks with a version that hides it.
UNSHOWN_POLLS = 10
# From reading an event to approving it, and from an approval that failed to the next, unless
# --prepare says otherwise. Real preparations may take minutes; a program under test should have
# little to save. A handler that approves an event of several machines within this time did not wait
# for the others, as no handler runs there.
PREPARE_SECONDS = 20.0
# How long to watch an event that something else follows. All others are watched for as long as the
# program may prepare: until then it may approve them.
GLANCE_SECONDS = 1.0
# Part of the notice that must be left when the event is read; less is too short to save anything.
LEFT_SECONDS = 5.0
# A fault ends after this many requests, but not before FAULT_SECONDS (the rate limit catches a
# program that retries without a pause), and at most FAULT_LONGEST_SECONDS after the first request
# that met it (a program that polls once a minute need not meet three).
FAULTS_MET = 3
FAULT_SECONDS = 5.0
FAULT_LONGEST_SECONDS = 10.0
# The endpoint allows 5 requests a second and bursts of 10 (M17). A program may exceed that once or
# twice when it starts; more refusals mean that it polls too often.
RATE_REFUSALS = 2
# An approval may be repeated in case it was lost: a few times, then every few seconds.
REPEATS = 3
REPEAT_SECONDS = 4.0
REPEAT_WINDOW_SECONDS = 12.0  # how long approvals are counted
# Until a program has ended (which may take 5 s, see `exec`) and has restarted, on a busy host.
OVER_SECONDS = 120.0
# A day without a poll disables the feature (M14); virtual seconds.
SILENCE_SECONDS = 24 * 3600 + 60.0


def check_rules(seen: Observations, prepare_seconds: float) -> None:
    """Raise `TrapFailed` if the program approved a wrong event or polled too often."""
    for event in seen.events.values():
        if event.approved_by == ME:
            _check_approval(event, prepare_seconds)
    if seen.refused["rate"] > RATE_REFUSALS:
        text = (
            "sent more than 5 requests a second:"
            f" {seen.refused['rate']} requests were refused with 429"
        )
        raise TrapFailed(text)


def _check_approval(event: ObservedEvent, prepare_seconds: float) -> None:
    names = " and ".join(event.resources)
    if ME not in event.resources:
        raise TrapFailed(f"approved an event of {names}, which is another machine")
    if len(event.resources) > 1 and approval_seconds(event) < prepare_seconds:
        raise TrapFailed(
            f"approved the event of {names} {approval_seconds(event):.1f} s after reading it,"
            " without waiting for the other machine"
        )


def approval_seconds(event: ObservedEvent) -> float:
    """Return the seconds from the first read of an event to its approval."""
    assert event.approved_at is not None
    return max(0.0, event.approved_at - (event.read_at or event.at))
