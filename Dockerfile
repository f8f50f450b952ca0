# The service from the wheel: make dist && docker build -t cpor . && docker run -p 8321:8321 -e CPOR_TOKEN=... cpor
# Not built by us: there was no Docker where this was written.
FROM python:3.12-slim
COPY constraints.txt dist/*.whl /tmp/wheel/
RUN python -m pip install --no-cache-dir --constraint /tmp/wheel/constraints.txt "$(ls /tmp/wheel/*.whl)[perception,serve]"
RUN useradd --create-home cpor
USER cpor
EXPOSE 8321
CMD ["cpor", "serve", "--host", "0.0.0.0", "--token-env", "CPOR_TOKEN"]
