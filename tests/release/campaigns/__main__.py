"""Run all campaigns at the scale of a release, which takes hours.

`python -m tests.release.campaigns` writes what was done to `docs/reliability.md`; started again
with the same source, it continues.
"""

import argparse
import asyncio
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count

from tests.fixtures.programs import ROOT
from tests.release.campaigns.plan import CAMPAIGNS, Campaign
from tests.release.campaigns.progress import PAGE, ReleaseProgress, path_of_output


class RunFailed(Exception):
    """A run found something."""


class Release:
    """Runs of all campaigns, a few at a time."""

    def __init__(self, campaigns: list[Campaign], progress: ReleaseProgress) -> None:
        self._campaigns = campaigns
        self._progress = progress
        self._under_way: Counter[str] = Counter()  # runs, by campaign
        self._counted = _seconds_of_ended_runs()

    async def run(self, jobs: int) -> None:
        """Run until everything is done; raise `RunFailed` at the first run that fails.

        SIGTERM ends the runs in progress, which have to be done again.
        """
        task = asyncio.current_task()
        assert task
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        runs = self._runs()
        async with asyncio.TaskGroup() as group:
            for _ in range(jobs):
                group.create_task(self._work(runs))

    def _runs(self) -> Iterator[tuple[Campaign, int]]:
        """Yield the runs that are left."""
        for campaign in self._campaigns:
            done = self._progress.of(campaign)
            for number in count():
                under_way = self._under_way[campaign.name] * campaign.per_run
                if done.count + under_way >= campaign.goal:
                    break
                if number not in done.runs:
                    self._under_way[campaign.name] += 1
                    yield campaign, number

    async def _work(self, runs: Iterator[tuple[Campaign, int]]) -> None:
        for campaign, number in runs:
            output = await _run(campaign, number)
            amount = campaign.amount(output)
            self._under_way[campaign.name] -= 1
            before, self._counted = self._counted, _seconds_of_ended_runs()
            self._progress.add(campaign, number, amount, self._counted - before)
            done = self._progress.of(campaign).count
            print(f"{campaign.name}: {done:,} of {campaign.goal:,}", flush=True)


def _seconds_of_ended_runs() -> float:
    """Return how long the processors have worked for them, beside whatever else they did."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


async def _run(campaign: Campaign, number: int) -> str:
    path = path_of_output(campaign.name, number)
    with path.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *campaign.command(number), cwd=ROOT, stdout=file, stderr=file
        )
    try:
        await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    if process.returncode:
        words = " ".join(["python", *campaign.command(number)[1:]])
        raise RunFailed(f"{words}: exit code {process.returncode}, output in {path}")
    output = path.read_text("utf-8", "replace")
    path.unlink()
    return output


def main() -> int:
    """Run; return 0 if nothing was found, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.release.campaigns", description=__doc__)
    names = [campaign.name for campaign in CAMPAIGNS]
    parser.add_argument("campaigns", nargs="*", metavar="CAMPAIGN", help=", ".join(names))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time")
    options = parser.parse_args()
    if unknown := set(options.campaigns) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    chosen = [c for c in CAMPAIGNS if not options.campaigns or c.name in options.campaigns]
    failed: list[BaseException] = []
    try:
        asyncio.run(Release(chosen, ReleaseProgress()).run(options.jobs))
    except* RunFailed as group:
        failed += group.exceptions
    except* asyncio.CancelledError:
        failed.append(RunFailed("terminated; started again, it continues"))
    for failure in failed:
        print(failure)
    print(f"What was done is in {PAGE.relative_to(ROOT)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
