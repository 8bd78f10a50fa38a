"""`Microsoft.Compute`: machines, scale sets, instances, availability sets and disks."""
