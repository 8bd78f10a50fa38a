"""Attacks a service as a tenant and as the operator: `python -m tests.hostile MINUTES [SEED]`."""

import sys
import time

from tests.hostile.two_tenants import ATTACKS, STEPS, Campaign


def main(minutes: float, seed: int) -> None:
    """Attack with one seed after another for some minutes of processor time."""
    campaign = Campaign()
    while time.process_time() < minutes * 60:
        print(f"seed {seed}: ", end="", flush=True)
        campaign.attack_as_tenant(seed)
        campaign.attack_as_operator(seed)
        print(f"{2 * ATTACKS * STEPS} requests, {time.process_time():.0f} s", flush=True)
        seed += 1


main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
