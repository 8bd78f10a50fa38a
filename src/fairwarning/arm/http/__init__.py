"""HTTP as Azure Resource Manager speaks it: requests, errors, routes, and the handlers' context."""
