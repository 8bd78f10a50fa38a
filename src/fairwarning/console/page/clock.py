"""Control of the virtual clock (O5): advance, pause, run at a multiple."""

from fairwarning.console.api import bodies
from fairwarning.console.page import fleet, form_data, words
from fairwarning.console.page.form_data import FormDone
from fairwarning.console.page.request import FormRoutes, PageRequest
from fairwarning.core.errors import Refused

_MINUTE_SECONDS = 60


async def change(request: PageRequest) -> FormDone:
    """Advance the clock by a button's seconds or by typed minutes, or set its rate."""
    form = request.form
    seconds, rate = form.number("advance", "advance"), form.number("rate", "rate")
    minutes = form.number("minutes", "minutes")
    if minutes is not None:
        seconds = minutes * _MINUTE_SECONDS
    back = form_data.local_path(form.text("back"))
    if rate is not None:
        await request.api.set_clock(bodies.ClockChange(rate=rate))
        return FormDone(f"The clock is {words.clock_rate(rate)}.", back)
    if seconds is None:
        raise Refused("NoTime", "enter how many minutes to advance the clock by")
    now = (await request.api.set_clock(bodies.ClockChange(advance_seconds=seconds))).now
    notice = f"Advanced by {words.duration(seconds)}. It is now {words.time_of_day(now, now)}."
    return FormDone(notice, back)


FORMS: FormRoutes = [("/clock", change, fleet.show)]
