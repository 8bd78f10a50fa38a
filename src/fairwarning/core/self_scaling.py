"""Scale sets that scale themselves: what they do when autoscale wants another capacity."""

from fairwarning.core import autoscale, choosing, growing, limits
from fairwarning.core.choosing import Groups
from fairwarning.core.commands import AdjustCapacity, Delete, ReportMetric, SetAutoscale
from fairwarning.core.decision import EntityDecision, Fact, FactType
from fairwarning.core.errors import Conflict
from fairwarning.core.growing import check_not_deleting
from fairwarning.core.messages import PostponeAdjustment
from fairwarning.core.model import Autoscale, ScaleSet
from fairwarning.core.record import changed


def set_autoscale(
    scale_set: ScaleSet, command: SetAutoscale, groups: Groups, now: float
) -> EntityDecision:
    """Set the profiles of a set, and adjust its capacity; without profiles, turn that off."""
    check_not_deleting(scale_set)
    if not command.profiles:
        off = Fact(FactType.SET_CHANGED, detail="autoscale off")
        return EntityDecision(changed(scale_set, autoscale=None), (off,))
    settings = scale_set.autoscale or Autoscale(profiles=())
    updated = changed(scale_set, autoscale=changed(settings, profiles=command.profiles))
    return adjust(updated, AdjustCapacity(set=scale_set.id, actor=command.actor), groups, now)


def report_metric(
    scale_set: ScaleSet, command: ReportMetric, groups: Groups, now: float
) -> EntityDecision:
    """Keep the value of a metric, and adjust the capacity if a rule says so."""
    settings = scale_set.autoscale
    if settings is None:
        text = f"scale set {scale_set.name!r} does not scale itself; create autoscale settings"
        raise Conflict("NoAutoscale", text)
    known = {rule.metric for profile in settings.profiles for rule in profile.rules}
    if command.metric not in known:
        allowed = ", ".join(sorted(known)) or "none, as its profiles have no rules"
        raise Conflict("UnknownMetric", f"no rule of the set has this metric; they have: {allowed}")
    metrics = {**settings.metrics, command.metric: command.value}
    updated = changed(scale_set, autoscale=changed(settings, metrics=metrics))
    return adjust(updated, AdjustCapacity(set=scale_set.id), groups, now)


def adjust(
    scale_set: ScaleSet, command: AdjustCapacity, groups: Groups, now: float
) -> EntityDecision:
    """Bring the capacity to what autoscale wants, as far as instances are free to go."""
    if scale_set.autoscale is None or scale_set.deleting:
        return EntityDecision(scale_set)
    staying = choosing.staying(groups)
    settings, wanted = autoscale.look(scale_set.autoscale, len(staying), now)
    scale_set = changed(scale_set, autoscale=changed(settings, refused=""))
    if wanted == len(staying):
        return EntityDecision(scale_set)
    operation = f"{scale_set.id}/autoscale/{scale_set.version}"
    fact = Fact(FactType.SET_CHANGED, operation=operation, detail=f"autoscale to {wanted}")
    if wanted > len(staying):
        grown, sends = growing.grow(scale_set, wanted - len(staying), groups)
        return EntityDecision(grown, (fact,), sends)
    count = len(staying) - wanted
    leaving = choosing.choose(scale_set.scale_in, choosing.free(staying, groups), count)
    if len(leaving) < count:
        scale_set = changed(scale_set, autoscale=autoscale.look_soon(settings, now))
    sends = tuple(
        Delete(scope=scope, machines=names, operation=operation, actor=command.actor)
        for scope, names in choosing.by_scope(leaving).items()
    )
    return EntityDecision(scale_set, (fact,) if leaving else (), sends)


def postpone(
    scale_set: ScaleSet, command: PostponeAdjustment, _: Groups, now: float
) -> EntityDecision:
    """Look again later, as the capacity could not be reached."""
    assert scale_set.autoscale
    settings = scale_set.autoscale
    later = changed(settings, due_at=now + limits.AUTOSCALE_SECONDS, refused=command.why)
    fact = Fact(FactType.SET_CHANGED, detail=f"autoscale refused: {command.why}")
    facts = () if settings.refused == command.why else (fact,)  # journaled once
    return EntityDecision(changed(scale_set, autoscale=later), facts)
