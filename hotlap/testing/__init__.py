"""Checks that anyone can run on environments of their own.

`check_vector_env` takes any Gymnasium vector environment, `check_batch_env` a hotlap batch. Both
raise `ContractError` with what was expected, what was found and what to try, and return what they
checked.
"""

from hotlap.testing.batch_contract import check_batch_env
from hotlap.testing.contract import ContractError
from hotlap.testing.vector_contract import check_vector_env

__all__ = ["ContractError", "check_batch_env", "check_vector_env"]
