"""Template functions that depend only on their arguments."""

from fairwarning.arm.templates.evaluation import Functions
from fairwarning.arm.templates.functions.collections import ARRAYS, LAMBDAS, OBJECTS
from fairwarning.arm.templates.functions.control_flow import CONTROL_FLOW
from fairwarning.arm.templates.functions.networks import NETWORKS
from fairwarning.arm.templates.functions.numbers import NUMBERS
from fairwarning.arm.templates.functions.text import TEXT
from fairwarning.arm.templates.functions.times import TIMES

FUNCTIONS: Functions = {
    **ARRAYS, **CONTROL_FLOW, **LAMBDAS, **NETWORKS, **NUMBERS, **OBJECTS, **TEXT, **TIMES,
}  # fmt: skip
