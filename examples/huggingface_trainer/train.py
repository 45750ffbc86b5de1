"""Hugging Face Trainer: a small GPT-2 learns to count."""

import os

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import trainmaster
from trainmaster.integrations.huggingface import TrainmasterCallback, resume


class Counting(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = (torch.arange(16) + index) % 64
        return {"input_ids": ids, "labels": ids}


def main() -> None:
    steps = int(trainmaster.hyperparameters().get("steps", 20))
    arguments = TrainingArguments(
        "trainer-output",
        max_steps=steps,
        per_device_train_batch_size=8,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",  # the platform decides
        report_to="none",
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        ddp_backend="nccl" if torch.cuda.is_available() else "gloo",
    )
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=1, n_head=2))
    trainer = Trainer(model, arguments, train_dataset=Counting(), callbacks=[TrainmasterCallback()])
    trainer.train(resume_from_checkpoint=resume(arguments.output_dir))
    trainmaster.finish()  # the last checkpoint is written
    if "RANK" in os.environ:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
