"""What is looked at: nouns in, a Vega-Lite specification out, the same for a file, a notebook and a page. Pure."""
