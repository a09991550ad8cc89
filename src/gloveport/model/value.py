"""``Value``, the base of every value: frozen, and strict about its fields."""

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen value: no field can be changed, and none that is unknown is taken."""

    model_config = ConfigDict(frozen=True, extra="forbid")
