# lhaw-record in a container, as a user without rights; docs/container.md shows how it is run. From a checkout:
#
#   pip wheel --no-deps --wheel-dir dist . && docker build -t lhaw-record .
#
# BASE is any image of Debian with Python 3.11 or later. The folder dist/ has the wheel, and its dependencies where the build
# reaches no package index (--build-arg PIP_OPTIONS="--no-index --find-links /wheels").
ARG BASE=python:3.12-slim-bookworm
FROM $BASE
ARG PIP_OPTIONS=""
ARG PACKAGES="bubblewrap"

RUN if [ -n "$PACKAGES" ]; then \
      apt-get update -qq && apt-get install -y -qq --no-install-recommends $PACKAGES && rm -rf /var/lib/apt/lists/*; \
    fi
COPY dist/ /wheels/
RUN python3 -m venv /opt/lhaw-record \
 && /opt/lhaw-record/bin/pip install --no-cache-dir $PIP_OPTIONS /wheels/lhaw_record-*.whl \
 && rm -rf /wheels
RUN useradd --create-home --uid 1000 researcher && mkdir /data && chown researcher /data
ENV PATH=/opt/lhaw-record/bin:$PATH PYTHONUNBUFFERED=1
USER researcher
WORKDIR /data
ENTRYPOINT ["lhaw-record"]
CMD ["help"]
