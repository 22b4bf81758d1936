"""The pages: parse, one app call, render. Empty until there is a web page."""
