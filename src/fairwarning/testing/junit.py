"""JUnit reports of `certify` and `scenario run`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET


class JUnitCase(NamedTuple):
    """The result of one trap or scenario."""

    name: str
    seconds: float
    failure: str = ""  # in a sentence; empty: it passed
    details: str = ""  # of the failure
    output: str = ""


def write_report(
    path: Path, name: str, cases: Sequence[JUnitCase], properties: Mapping[str, str]
) -> None:
    """Write a report on the cases of `fairwarning NAME`."""
    suite = ET.Element(
        "testsuite",
        name=f"fairwarning {name}",
        tests=str(len(cases)),
        failures=str(sum(bool(case.failure) for case in cases)),
        errors="0",
        time=f"{sum(case.seconds for case in cases):.3f}",
    )
    if properties:
        listed = ET.SubElement(suite, "properties")
        for key, value in properties.items():
            ET.SubElement(listed, "property", name=key, value=value)
    for case in cases:
        element = ET.SubElement(
            suite, "testcase", classname=name, name=case.name, time=f"{case.seconds:.3f}"
        )
        if case.failure:
            ET.SubElement(element, "failure", message=case.failure).text = case.details
        if case.output:
            ET.SubElement(element, "system-out").text = case.output
    try:
        ET.ElementTree(suite).write(path, "utf-8", xml_declaration=True)
    except OSError as error:
        error.filename = str(path)  # a failed write does not name it
        raise
