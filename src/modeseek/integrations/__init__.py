"""DMS inside the tools that people already use; each module needs the extra of its name."""
