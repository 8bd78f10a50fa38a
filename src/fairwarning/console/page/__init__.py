"""The web page (O8). Pages are rendered on the server; one small script updates them live."""
