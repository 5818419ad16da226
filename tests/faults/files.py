"""Checkpoints to be broken: what the tests of faults share."""

import json

from safetensors.torch import load, save

from modeseek import Optimizer, storage
from shared import BOX, CHEAP, sphere


def saved(path, n=6):
    opt = Optimizer(BOX, seed=0, config=CHEAP, n_initial=4)
    for _ in range(n):
        trial = opt.ask()
        opt.tell(trial, sphere(trial.params))
        opt.save(path)
    opt.close()
    return opt


def sealed(tensors, document):
    """A file of version 2, whatever it holds, with a checksum that is right."""
    return storage.seal(save(tensors, metadata={"modeseek": document, storage.SEAL: storage.UNSEALED}))


def document_of(data):
    """The JSON document in a checkpoint's bytes."""
    return json.loads(json.loads(data[8 : 8 + storage.header_size(data)])["__metadata__"]["modeseek"])


def rewritten(path, change, tensors=None):
    """The checkpoint with its JSON document changed in place, and perhaps other tensors."""
    data = path.read_bytes()
    document = document_of(data)
    text = change(document) or json.dumps(document)
    return sealed(load(data) if tensors is None else tensors(load(data)), text)


def setter(*keys, value):
    def change(document):
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change
