"""SGD and Adam: by hand, against the formulas of the paper, against torch."""

import numpy as np
import pytest

from grpo.expressions import SGD, Adam


def test_sgd_by_hand():
    parameters = {"x": np.array([[1.0, 2.0]]), "y": np.array([[5.0]])}
    arrays = dict(parameters)
    SGD(0.1).step(parameters, {"x": np.array([[3.0, -0.5]]), "y": np.array([[10.0]])})
    np.testing.assert_allclose(parameters["x"], [[0.7, 2.05]])
    np.testing.assert_allclose(parameters["y"], [[4.0]])
    assert all(parameters[name] is arrays[name] for name in arrays)


def test_adam_by_hand():
    parameters = {"x": np.array([[1.0, 2.0]])}
    Adam(0.1).step(parameters, {"x": np.array([[3.0, -0.5]])})
    np.testing.assert_allclose(parameters["x"], [[0.9, 2.1]], atol=1e-6)


@pytest.mark.parametrize("optimizer", [SGD, Adam])
def test_bad_rates(optimizer):
    with pytest.raises(ValueError, match=r"^learning_rate is 0"):
        optimizer(0)


@pytest.mark.parametrize("settings", [{}, {"beta1": 0.5, "beta2": 0.8, "eps": 0.1}], ids=["defaults", "others"])
def test_adam_is_algorithm_1(settings):
    # Gradients near 1e-8 make eps count.
    gradients = np.random.default_rng(0).normal(size=(4, 1, 6)) * np.array([1e-9, 1e-8, 1e-7, 0.1, 1.0, 10.0])
    parameters, adam = {"x": np.ones((1, 6))}, Adam(0.3, **settings)
    beta1, beta2, eps = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, **settings}.values()
    expected, mean, square = np.ones((1, 6)), np.zeros((1, 6)), np.zeros((1, 6))
    for t, gradient in enumerate(gradients, start=1):
        adam.step(parameters, {"x": gradient})
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        expected -= 0.3 * (mean / (1 - beta1**t)) / (np.sqrt(square / (1 - beta2**t)) + eps)
        np.testing.assert_allclose(parameters["x"], expected, rtol=1e-12)


def test_adam_is_torch_s():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    ours, theirs = {"x": np.ones((1, 5))}, torch.ones((1, 5), dtype=torch.float64, requires_grad=True)
    adam, twin = Adam(0.05), torch.optim.Adam([theirs], lr=0.05)
    for _ in range(20):
        gradient = rng.normal(size=(1, 5))
        adam.step(ours, {"x": gradient})
        theirs.grad = torch.tensor(gradient)
        twin.step()
    np.testing.assert_allclose(ours["x"], theirs.detach().numpy(), rtol=0, atol=1e-12)
