"""``Value``, the base of every value: frozen, and strict about its fields."""

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen value: no field can be changed, and none that is unknown is taken.

    What validates it is built when the first is made, for to build all of them took a fifth of a start. So defaults are
    made by ``model_construct``, which validates nothing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
