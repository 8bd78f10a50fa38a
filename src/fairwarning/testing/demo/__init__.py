"""What happens in the fleet of `fairwarning up --demo` by itself."""
