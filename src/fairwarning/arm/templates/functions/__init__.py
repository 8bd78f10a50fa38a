"""Template functions that depend only on their arguments."""

from fairwarning.arm.templates.evaluation import Functions
from fairwarning.arm.templates.functions.collections import ARRAYS, LAMBDAS, OBJECTS
from fairwarning.arm.templates.functions.control_flow import CONTROL_FLOW
from fairwarning.arm.templates.functions.scalars import SCALARS
from fairwarning.arm.templates.functions.text import TEXT

FUNCTIONS: Functions = {**ARRAYS, **CONTROL_FLOW, **LAMBDAS, **OBJECTS, **SCALARS, **TEXT}
