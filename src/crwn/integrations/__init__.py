"""Other libraries: scikit-learn, ONNX, the Hugging Face Hub, TensorBoard, Weights & Biases, Avalanche, Flower.

One file or folder per library; importing this room imports none of them. May import: `serve`, `report`, `insight`,
`experiments`, `methods`, `scenarios`, `learner`, `training`, `contexts`, `data`, `models`, `layers`, `errors`.
"""
