"""The demo: NeuroModNet, FlyNet and fine-tuning learn six rotations of the digits, and their forgetting is compared."""
