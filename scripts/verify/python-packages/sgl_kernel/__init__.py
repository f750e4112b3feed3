"""Stand-in for SGLang's CUDA kernels on machines without CUDA: every imported name exists, and every call fails."""

import importlib.abc
import importlib.machinery
import sys
import types

# SGLang refuses older versions.
__version__ = "0.4.10"


class MissingKernel:
    def __init__(self, name):
        self.__name__ = name

    def __getattr__(self, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return MissingKernel(f"{self.__name__}.{attribute}")

    def __call__(self, *_arguments, **_options):
        raise NotImplementedError(f"{self.__name__} needs CUDA")

    def __mro_entries__(self, _bases):
        return (object,)


class MissingModule(types.ModuleType):
    __path__ = []

    def __getattr__(self, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return MissingKernel(f"{self.__name__}.{attribute}")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path=None, target=None):
        if not fullname.startswith(f"{__name__}."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        return MissingModule(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.append(Finder())


def __getattr__(attribute):
    if attribute.startswith("__"):
        raise AttributeError(attribute)
    return MissingKernel(f"{__name__}.{attribute}")
