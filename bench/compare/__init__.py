"""Our programs and foreign ones, measured in the same rounds and in the same place."""
