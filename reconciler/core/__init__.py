"""The pure core: bytes and values in, values out. Read the packages in the order of the data flow."""
