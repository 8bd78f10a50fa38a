"""The web page (O8): what people see and click. Server-rendered, with one small script of ours."""
