"""`python -m fairwarning` is the program."""

from fairwarning.cli.main import main

main()
