"""What commands print: lists, fields, progress, plans and errors, as text or JSON."""
