# SPDX-License-Identifier: Apache-2.0
"""Equal shapes. chunk_size is an argument of the original, which the result does not depend on."""

import random

from atk.case_generator.generator.base_generator import CaseGenerator
from atk.case_generator.generator.generate_types import GENERATOR_REGISTRY
from atk.configs.case_config import CaseConfig


@GENERATOR_REGISTRY.register("generator_bwd_dtrap_ddt")
class TrapGenerator(CaseGenerator):
    def after_case_config(self, case_config: CaseConfig) -> CaseConfig:
        shape = [1, random.randint(1, 3), random.randint(1, 40)]
        for item in case_config.inputs[:4]:
            item.shape = list(shape)
        return case_config
