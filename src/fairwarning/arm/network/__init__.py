"""`Microsoft.Network`: interfaces, addresses and subnets, as far as machines need them."""
