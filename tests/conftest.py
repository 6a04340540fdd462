"""What every test shares: how Hypothesis searches."""

from __future__ import annotations

import os

from hypothesis import settings

# The suite gives the same verdict on the same code, on a busy machine too; HYPOTHESIS_PROFILE=explore looks for more.
settings.register_profile("suite", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))
