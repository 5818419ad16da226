"""DMS as the generation strategy of an Ax client: a logarithmic, a whole and a categorical parameter.

pip install -c constraints.txt ".[ax]"
python examples/ax_client.py --trials 30

Every eighth trial fails, as trials do. The least loss is 0, at a learning rate of 1e-3, 120 units and "relu".
"""

import argparse
import math

from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.generation_strategy.generation_strategy import GenerationStrategy

from modeseek.integrations.ax import DMSNode

parameters = [
    RangeParameterConfig(name="lr", bounds=(1e-5, 1e-1), parameter_type="float", scaling="log"),
    RangeParameterConfig(name="units", bounds=(50, 200), parameter_type="int"),
    ChoiceParameterConfig(name="act", values=["relu", "tanh", "gelu"], parameter_type="str", is_ordered=False),
]


def loss(lr, units, act):
    return (math.log10(lr) + 3) ** 2 + ((units - 120) / 75) ** 2 + (0.0 if act == "relu" else 0.3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=30)
    args = parser.parse_args()

    client = Client()
    client.configure_experiment(parameters=parameters)
    client.configure_optimization(objective="-loss")  # Ax maximizes
    client.set_generation_strategy(GenerationStrategy(name="DMS", nodes=[DMSNode(seed=0)]))

    for number in range(args.trials):
        for index, params in client.get_next_trials(max_trials=1).items():
            if number % 8 == 7:
                client.mark_trial_failed(index)
            else:
                client.complete_trial(index, {"loss": loss(**params)})
    best, metrics, *_ = client.get_best_parameterization(use_model_predictions=False)
    print(f"best value {metrics['loss'][0]:.4g} at {best}")
