"""Tables, figures and pages from stored records and measurements."""
