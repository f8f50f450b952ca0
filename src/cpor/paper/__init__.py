"""The paper: benchmark data, decoders, metrics, one module for each table or figure."""
