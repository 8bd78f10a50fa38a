"""Planted bugs: small patches to the production source, each of which the simulator must find.

A patch is applied while its module is imported, so a bug must be planted before any import of
`fairwarning`; a patch that no longer matches the source is an error.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType


@dataclass(frozen=True, slots=True)
class Patch:
    """Replace one piece of a module's source."""

    module: str
    old: str
    new: str


class Plant:
    """A bug: the invariants it breaks (any may fail first), and its patches.

    The search may begin at a later seed, close to one that finds the bug.
    """

    def __init__(self, breaks: str, *patches: Patch, first_seed: int = 0) -> None:
        self.breaks = breaks.split()
        self.patches = patches
        self.first_seed = first_seed


SOURCE = Path(__file__).parents[2] / "src" / "fairwarning"
BEFORE_COMMIT = Patch(
    "service.writer.committer",
    "await self._commit(work)",
    "self.planted(work); await self._commit(work)",
)
DECIDE = "work = await self._committer.decide(waiting)"

PLANTS: dict[str, Plant] = {
    "start early": Plant(
        "IL2",
        Patch(
            "core.engine", "draft.now >= event.not_before:", "draft.now >= event.not_before - 60:"
        ),
        Patch("core.lifecycle", "and self.now < event.not_before:", "and False:"),
        first_seed=23,
    ),
    "forget an approval": Plant(
        "IL9",
        Patch(
            "core.engine",
            "        draft.approve(draft.events[name], command.actor)",
            "        len(ids) > 1 or draft.approve(draft.events[name], command.actor)",
        ),
    ),
    "keep the resource of a deleted machine": Plant(
        "C1",
        Patch("core.lifecycle", "            if machine.resource:\n", "            if False:\n"),
    ),
    "reuse an event id": Plant(
        "ID1 ID3 IB2",
        Patch(
            "core.announce",
            "guid(draft.secret, command.operation, draft.scope.id, key, repr(draft.now))",
            "guid(draft.secret, draft.scope.id, key)",
        ),
    ),
    "reuse the event id of a dropped operation": Plant(
        "ID1 ID3 IB2",
        Patch(
            "core.announce",
            "guid(draft.secret, command.operation, draft.scope.id, key, repr(draft.now))",
            "guid(draft.secret, command.operation, draft.scope.id, key)",
        ),
    ),
    "drop an operation in progress": Plant(
        "IR1",
        Patch("core.retention", "    if ending is not None and (", "    if False and ("),
        Patch(
            "service.retention",
            "in await store.ended_entities(before, _DROPPED_AT_ONCE + len(kept)):",
            "in [(Operation, n) for n in await store.list_ids(Operation, '', _DROPPED_AT_ONCE)]:",
        ),
    ),
    "drop an operation early": Plant(
        "IR1",
        Patch("core.retention", "ending.ended_at >= command.before", "False"),
        Patch("service.retention", "store.ended_entities(before,", "store.ended_entities(1e12,"),
    ),
    "keep a dropped operation in the cache": Plant(
        "IR1 IB2 IK1",
        Patch(
            "service.writer.committer",
            "            self._cache.pop(ref, None)\n            if after is not None:",
            "            if after is not None:",
        ),
    ),
    "drop a rollout before its lanes": Plant(
        "IR1 IB2",
        Patch(
            "service.retention",
            "            lanes = await _lanes(store, name)",
            "            lanes: list[str] = []",
        ),
    ),
    "do not set timers at a restart": Plant(
        "IL6",
        Patch(
            "service.writer.command_writer",
            "        self._timers.arm(await self._store.next_due())\n",
            "",
        ),
    ),
    "a step of the wall clock and a restart shorten notice": Plant(
        "E11",
        Patch(
            "service.host_time",
            "        self._line, self._last = stored, last",
            "        self._last = last",
        ),
        first_seed=3,
    ),
    "believe the wall clock after a reboot": Plant(
        "E11",
        Patch(
            "service.host_time",
            "max(last, stored.reached) - monotonic",
            "max(last, stored.reached, self._clocks.wall()) - monotonic",
        ),
    ),
    "publish fleet time after a step": Plant(
        "E11",
        Patch("service.host_time", "return floor(ahead) if", "return 0 if"),
    ),
    "follow the wall clock while a notice is pending": Plant(
        "E11",
        Patch("service.host_time", "if now < self._line.promised_until or abs", "if abs"),
    ),
    "leak another scope": Plant(
        "ID2 ID6 IB2",
        Patch("service.documents", "self._published.get(scope)", "self._published.get(scope[:6])"),
        Patch(
            "service.documents",
            "scope, PublishedScope(self._empty, self.promised)",
            "scope[:6], PublishedScope(self._empty, self.promised)",
        ),
    ),
    "acknowledge a failed commit": Plant(
        "E9 IC1 IL9 IB2",
        Patch(
            "service.writer.committer",
            "                for pending in waiting:\n                    pending.error = error\n",
            "",
        ),
    ),
    "publish before the commit": Plant(
        "ID2 IL9",
        BEFORE_COMMIT,
        Patch(
            "service.writer.command_writer",
            DECIDE,
            f"self._committer.planted = self._publisher.make_visible; {DECIDE}",
        ),
    ),
    "dispatch impacts before the commit": Plant(
        "IL5 E9",
        BEFORE_COMMIT,
        Patch(
            "service.writer.command_writer",
            DECIDE,
            f"self._committer.planted = self._carry_out; {DECIDE}",
        ),
    ),
    "keep the incarnation after a change": Plant(
        "ID1",
        Patch(
            "core.lifecycle",
            "and _shown(before.get(e.id)) != _shown(e)",
            "and not before.get(e.id)",
        ),
    ),
    "round notice down": Plant(
        "IL3",
        Patch("core.lifecycle", "return -int(-moment // 1)", "return int(moment)"),
    ),
    "ignore the terminate queue": Plant(
        "T6",
        Patch("core.lifecycle", "not event.awaits and not event.queue", "not event.awaits"),
    ),
    "ignore the wave": Plant(
        "E10",
        Patch("core.lifecycle", "and not event.awaits and", "and"),
        first_seed=23,
    ),
    "maintain a machine that has left the host": Plant(
        "E10",
        Patch("core.lanes", "(not lane.hosts or machine.host in lane.hosts)", "True"),
    ),
    "open windows by fleet time": Plant(
        "E7",
        Patch("core.lanes", "wanted = now + notice - ahead", "wanted = now + notice"),
        first_seed=60_001,
    ),
    "leave an operation open": Plant(
        "IC1",
        Patch(
            "core.operation",
            "total.done + total.failed + total.cancelled < total.planned",
            "total.done + total.cancelled < total.planned",
        ),
    ),
    "ignore a pause": Plant(
        "IC6",
        Patch("core.lanes", "    if rollout.status is RolloutStatus.PAUSED:", "    if False:"),
    ),
    "reuse an instance id": Plant(
        "IC4 IC8",
        Patch(
            "core.growing",
            "    first = scale_set.next_instance\n",
            "    first = len(staying(groups))\n",
        ),
    ),
    "forget impacts at a restart": Plant(
        "E9 IL6",
        Patch(
            "service.writer.command_writer",
            "                self._impacts.dispatch(impact)\n            last",
            "                pass\n            last",
        ),
    ),
    "mix update domains": Plant(
        "E4",
        Patch(
            "core.announce",
            "domains.setdefault(machine.update_domain, [])",
            "domains.setdefault(0, [])",
        ),
    ),
    "let two rollouts maintain two domains": Plant(
        "IC6",
        Patch(
            "core.lanes",
            "    return domains_under_maintenance(scope) - {",
            "    return set() & {",
        ),
        Patch("core.announce", "    if len(domains) > 1:\n", "    if len(domains) > 9:\n"),
    ),
    "take a reboot for a live migration": Plant(
        "IC6",
        Patch("core.operation_rules", " and command.kind is ImpactKind.FREEZE\n", "\n"),
    ),
    "let the platform start what its user stopped": Plant(
        "E5",
        Patch("core.lifecycle", "if impact.keeps_power and self", "if False and self"),
        Patch("core.lifecycle", "machine.power if impact.keeps_power else ", ""),
    ),
    "blame the driver while no service ran": Plant(
        "E9",
        Patch(
            "service.writer.impacts",
            "        limit = self._clock.now() + impact.limit_seconds",
            "        limit = impact.deadline or 0.0",
        ),
    ),
    "give up before the announced duration": Plant(
        "E9",
        Patch("core.lifecycle", "limit = max(limit, impact", "limit = min(limit, impact"),
        Patch("core.lifecycle", "+ limits.IMPACT_MARGIN_SECONDS)", "- 1)"),
    ),
    "ignore a late report": Plant(
        "E9",
        Patch("core.engine", "        draft.report_late(late, command.error)", "        pass"),
    ),
    "keep a machine that was deleted late": Plant(
        "IL14",
        Patch(
            "core.lifecycle",
            "        if deletes(machine, impact.kind):  # nothing",
            "        if not impact.superseded and deletes(machine, impact.kind):  # nothing",
        ),
        first_seed=25,
    ),
    "let a late report overrule what its user did since": Plant(
        "IL14",
        Patch("core.lifecycle", "        elif impact.superseded or (newer", "        elif (newer"),
        first_seed=111,
    ),
    "fail a delete because an earlier one was done": Plant(
        "IL14",
        Patch("core.lifecycle", '"" if is_done else why', "why"),
        first_seed=548,
    ),
    "shorten the notice of what is left of an event": Plant(
        "IL3",
        Patch(
            "core.lifecycle",
            "max(event.not_before, whole_seconds(self.now + notice)), 0",
            "event.not_before, 0",
        ),
    ),
    "delay what is left of an event": Plant(
        "E5",
        Patch(
            "core.lifecycle",
            "max(event.not_before, whole_seconds(self.now + notice)), 0",
            "event.not_before + notice, 0",
        ),
    ),
    "answer another command with the first operation": Plant(
        "IC2",
        Patch("core.cascade", "            _check_repeat(known, command)\n", ""),
    ),
    "refuse to approve what just ended": Plant(
        "M12",
        Patch("service.approvals", "entry.line.at > oldest", "False"),
    ),
    "accept a repeated operation again": Plant(
        "IC2 IB2 ID3",
        Patch(
            "core.cascade",
            "        if known is not None:",
            "        if known is not None and known.planned > 1:",
        ),
    ),
    "ignore the recorded polls of an idle scope": Plant(
        "M14",
        Patch(
            "service.writer.due_work",
            "        if not last:\n",
            "        if True:\n",
        ),
    ),
    "divide by a setting of zero": Plant(
        "IB2",
        Patch("core.rollout", "failed * 100 <= most * machines", "failed * 100 / most <= machines"),
    ),
    "accept a notice that cannot be used": Plant(
        "IB2",
        Patch(
            "core.announce",
            "    earliest = whole_seconds(draft.now + notice)\n",
            "    earliest = whole_seconds(draft.now + notice)\n"
            "    assert notice < limits.NOTICE_MAX_SECONDS\n",
        ),
    ),
    "keep the address of a deleted machine": Plant(
        "IC8",
        Patch("core.lifecycle", '            self.change_address(machine, "")\n', ""),
    ),
    "do not count addresses given by hand": Plant(
        "IC8",
        Patch(
            "core.subnets",
            "            subnet = claim(subnet, machine.address)\n",
            "            pass\n",
        ),
        first_seed=3,
    ),
}


class _PatchingLoader(SourceFileLoader):
    """Loads a module with patches applied."""

    patches: Sequence[Patch] = ()

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.get_filename(fullname)).read_text()
        for patch in self.patches:
            if source.count(patch.old) < 1:
                raise SystemExit(f"the patch no longer matches {fullname}: {patch.old!r}")
            source = source.replace(patch.old, patch.new)
        code: CodeType = compile(source, self.path, "exec", dont_inherit=True)
        return code


class _PatchingFinder(MetaPathFinder):
    """Finds the modules to patch."""

    def __init__(self, patches: Sequence[Patch]) -> None:
        self.patches = patches

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        patches = [patch for patch in self.patches if fullname == f"fairwarning.{patch.module}"]
        spec = PathFinder.find_spec(fullname, path, target) if patches else None
        if spec is None or spec.origin is None:
            return None
        loader = _PatchingLoader(fullname, spec.origin)
        loader.patches = patches
        spec.loader = loader
        return spec


def patch(*patches: Patch) -> None:
    """Patch all modules that are imported later."""
    if any(module.startswith("fairwarning.") for module in sys.modules):
        raise SystemExit("patch before importing fairwarning")
    for one in patches:
        if not (SOURCE / f"{one.module.replace('.', '/')}.py").exists():
            raise SystemExit(f"the module to patch does not exist: fairwarning.{one.module}")
    sys.meta_path.insert(0, _PatchingFinder(patches))


def plant(name: str) -> None:
    """Plant a bug."""
    patch(*PLANTS[name].patches)
