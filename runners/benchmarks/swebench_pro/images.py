"""Names of the instances' images: the published tag, or the one that the published rule makes of an instance's id."""

from runners.benchmarks.swebench_pro.instances import Instance

PUBLISHED_USER = "jefzda"
PUBLISHED_TEMPLATE = "{user}/sweap-images:{tag}"
_TAG_CHARACTERS = 128  # what a registry allows; published tags are cut there
_ID_PREFIX = "instance_"
_NO_VERSION = "-vnan"
# The one repository whose images were uploaded under a shorter name, and its one image that was not.
_SHORTENED = {"element-hq/element-web": "element"}
_EXCEPTION = "instance_element-hq__element-web-ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan"


def image_name(instance: Instance, template: str, user: str) -> str:
    """Return the name of an instance's image.

    Args:
        instance: The instance.
        template: A name with ``{tag}`` and, if it likes, ``{user}`` in it.
        user: The account that the images lie under.
    """
    return template.replace("{user}", user).replace("{tag}", instance.image or published_tag(instance))


def published_tag(instance: Instance) -> str:
    """Return the tag that the evaluator makes of repository and id, for instances without the column of tags."""
    owner, _, repository = instance.repo.lower().partition("/")
    rest = instance.instance_id.replace(_ID_PREFIX, "")
    if instance.instance_id != _EXCEPTION:
        repository = _SHORTENED.get(f"{owner}/{repository}", repository)
        rest = rest.removesuffix(_NO_VERSION)
    return f"{owner}.{repository}-{rest}"[:_TAG_CHARACTERS]
