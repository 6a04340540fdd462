"""The releases of this checkout: wheels for each Python that is here, and their content (./build.sh wheel).

`wheels` builds, repairs and checks; `sbom` writes the bill of materials; `installed` runs inside the environment of an
installed wheel. Nothing here is in a wheel.
"""
