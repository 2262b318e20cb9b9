"""Input that somebody damaged: values of JSON, lines of text, bytes. Some is kept and tried always."""
