# SPDX-License-Identifier: Apache-2.0
"""Chunk sizes of dacs_segsum: also some below those of the file."""

import random

from atk.case_generator.generator.base_generator import CaseGenerator
from atk.case_generator.generator.generate_types import GENERATOR_REGISTRY
from atk.configs.case_config import CaseConfig


@GENERATOR_REGISTRY.register("generator_dacs_segsum")
class DacsGenerator(CaseGenerator):
    def after_case_config(self, case_config: CaseConfig) -> CaseConfig:
        if random.random() < 0.5:
            case_config.inputs[1].range_values = random.choice([4, 8])
        return case_config
