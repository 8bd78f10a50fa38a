"""Time control (O5): advance, freeze, run at a multiple."""

from fairwarning.console.page import fleet, forms, words
from fairwarning.console.page.forms import FormDone
from fairwarning.console.page.request import Deeds, PageRequest
from fairwarning.core.errors import Refused

_MINUTE_SECONDS = 60


async def change(visit: PageRequest) -> FormDone:
    """By a button's seconds, by minutes that were typed, or to a rate."""
    form = visit.form
    seconds, rate = form.number("advance", "advance"), form.number("rate", "rate")
    minutes = form.number("minutes", "minutes")
    if minutes is not None:
        seconds = minutes * _MINUTE_SECONDS
    to = forms.inside(form.text("back"))
    if rate is not None:
        await visit.api.set_clock({"rate": rate})
        return FormDone(f"The fleet's clock {'is ' if not rate else ''}{words.rate(rate)}.", to)
    if seconds is None:
        raise Refused("NoTime", "say by how many minutes to advance")
    now = (await visit.api.set_clock({"advance": seconds})).now
    return FormDone(f"Advanced by {words.span(seconds)}: it is {words.moment(now, now)}.", to)


DEEDS: Deeds = [("/clock", change, fleet.show)]
