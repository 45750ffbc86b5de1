# ruff: noqa: E501  the texts stand as they are written
"""Real texts of torch, NCCL, gloo, torchrun and CUDA, and the end reason that each stands for."""

from __future__ import annotations

import pytest

from agent.attempts.causes import PATTERNS, Cause, cause_in, cause_of
from agent.attempts.verdict import RankEnd, Verdict, decide
from agent.launchers.contract import Ended
from platform_core.jobs.ends import ENDS, EndReason

TEXTS: dict[EndReason, tuple[str, ...]] = {
    EndReason.SILENT_CORRUPTION: (
        "trainmaster.corruption.CorruptionFound: at step 20 rank 1 computed something else than the others from the same batch",
    ),
    EndReason.DATA_REVIEW: (
        "trainmaster.data.quarantine.NeedsReview: 101 samples and 0 shards could not be read; 100 samples and 3 shards may "
        "be set aside. The last was sample 13: JSONDecodeError: Expecting value.",
        "trainmaster.data.quarantine.NeedsReview: None of the 8 samples of rank 1 in this batch could be read; the last: x.",
    ),
    EndReason.OUT_OF_MEMORY_GPU: (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB "
        "of which 1.44 GiB is free.",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "[rank3]: RuntimeError: CUDA error: out of memory",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 63.98 GiB",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
        "Cuda failure 2 'out of memory'",
    ),
    EndReason.OUT_OF_MEMORY_HOST: (
        "MemoryError",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 1.00 PiB for an array with shape (1125899906842624,)",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
        "to allocate 1125899906842624 bytes. Error code 12 (Cannot allocate memory)",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "OSError: [Errno 12] Cannot allocate memory",
        "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. ",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        "RuntimeError: unable to allocate shared memory(shm) for file </torch_77_1>: Resource temporarily unavailable (11)",
    ),
    EndReason.DISK_FULL: (
        "OSError: [Errno 28] No space left on device: '/data/cache/part-7'",
        "OSError: [Errno 122] Disk quota exceeded",
        "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534",
        "RuntimeError: [enforce fail at inline_container.cc:603] . PytorchStreamWriter failed writing file data/0: file write "
        "failed",
    ),
    EndReason.SCRIPT_ERROR: (
        "RuntimeError: CUDA error: device-side assert triggered",
        "[rank0]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "Cuda failure 700 'an illegal memory access was encountered'",
    ),
    EndReason.GPU_FAILED: (
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "torch.AcceleratorError: CUDA error: unspecified launch failure",
        "RuntimeError: CUDA error: the launch timed out and was terminated",
        "Cuda failure 'unknown error'",
        "ncclUnhandledCudaError: Call to CUDA function failed.",
        "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:86:00): 94, pid=3124, name=python3, Contained: CE User Channel (0x9). RST: No, D-RST: No",
        "RuntimeError: No CUDA GPUs are available",
        "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment",
        "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU",
    ),
    EndReason.NETWORK: (
        "RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
        "[127.0.0.1]:23251. This is typically caused by a remote worker crashing.",
        "RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting "
        "3000ms for recv operation to complete",
        "RuntimeError: Timed out waiting 1800000ms for send operation to complete",
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
        "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to "
        "(10.0.0.7, 29500).",
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, remote "
        "process exited or there was a network error, NCCL version 2.21.5",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
        "[rank1]:[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1231, "
        "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed.",
        "[W socket.cpp:436] [c10d] recvValue failed on SocketImpl(fd=41)",
        "n7: NET/IB : Got completion from peer 10.1.0.8<51423> with status=12 opcode=0 len=0 vendor err 129: NET/IB error",
        "OSError: [Errno 113] No route to host",
    ),
    EndReason.LAUNCHER: (
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29985, "
        "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        "/usr/bin/python3: No module named torch.distributed.run",
    ),
}  # fmt: skip
QUIET = (
    "ValueError: the loss is not a number",
    "KeyError: 'lr'",
    "AssertionError: Torch not compiled with CUDA enabled",
    "step 100 loss 2.31, 28 images/s",
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=99, name=python, Ch 00000008, intr 00000000. MMU Fault",
    "TimeoutError: the licence server did not answer",
    "retrying in 3 s: the connection to the dataset was slow",
)
CLOSED = TEXTS[EndReason.NETWORK][0]


@pytest.mark.parametrize(("end", "text"), [(end, text) for end, texts in TEXTS.items() for text in texts])
def test_a_real_text_has_its_cause(end: EndReason, text: str) -> None:
    cause = cause_of(text)
    assert cause is not None
    assert cause.end is end


@pytest.mark.parametrize("text", QUIET)
def test_an_ordinary_error_or_line_has_no_cause_of_the_table(text: str) -> None:
    assert cause_of(text) is None


def test_every_row_of_the_table_has_a_text() -> None:
    assert {end for end, _ in PATTERNS} == set(TEXTS)


def test_in_a_log_the_failure_wins_over_the_lost_connections_that_it_causes() -> None:
    oom = TEXTS[EndReason.OUT_OF_MEMORY_GPU][0]
    for log in (f"{CLOSED}\n{oom}\n", f"{oom}\n{CLOSED}\n"):
        cause = cause_in(log)
        assert cause is not None
        assert cause.end is EndReason.OUT_OF_MEMORY_GPU


def test_old_lines_of_a_log_are_no_cause() -> None:
    assert cause_in(f"{CLOSED}\n" + "step\n" * 100) is None


def rank_verdict(error: str = "", log: str = "", code: int = 1) -> Verdict:
    return decide(Ended(1), {0: RankEnd(code, error)}, 1, "", {0: log})


def test_an_exception_that_the_table_does_not_have_is_a_script_error_whatever_its_peers_left_in_the_log() -> (
    None
):
    log = f"Traceback (most recent call last):\nValueError: the loss is not a number\n{CLOSED}\n"
    ended = rank_verdict("ValueError: the loss is not a number", log)
    assert ended.end is EndReason.SCRIPT_ERROR
    assert ended.reason == "Rank 0 ended with exit code 1: ValueError: the loss is not a number."


def test_a_collective_that_failed_for_a_gpu_is_the_gpus_failure() -> None:
    first = (
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:268, unhandled cuda error"
    )
    more = "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'uncorrectable ECC error encountered'"
    log = f"Traceback (most recent call last):\n{first}\n{more}\n"
    assert rank_verdict(first, log).end is EndReason.GPU_FAILED


def test_a_process_that_aborted_in_native_code_is_judged_by_its_log() -> None:
    log = f"terminate called after throwing an instance of 'c10::DistBackendError'\n{TEXTS[EndReason.NETWORK][8]}\n"
    assert rank_verdict(log=log, code=134).end is EndReason.NETWORK
    assert rank_verdict(log="step 7\n", code=139).end is EndReason.KILLED


def test_of_two_ranks_the_one_that_did_not_fail_by_network_is_the_cause() -> None:
    ranks = {
        0: RankEnd(1, CLOSED),
        1: RankEnd(1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"),
    }
    report = "Root Cause (first observed failure):\n[0]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 11)\n"
    ended = decide(Ended(1), ranks, 2, report, {})
    assert (ended.end, ended.reason.split()[1]) == (EndReason.OUT_OF_MEMORY_GPU, "1")


def test_a_rendezvous_that_fails_before_any_rank_is_judged_by_torchruns_log() -> None:
    assert decide(Ended(1), {}, 2, TEXTS[EndReason.LAUNCHER][0], {}).end is EndReason.LAUNCHER


def test_a_launcher_that_has_no_disk_left_says_so() -> None:
    ended = decide(Ended(125, trouble="the log could not be opened: No space left on device"), {}, 2, "", {})
    assert ended.end is EndReason.DISK_FULL


@pytest.mark.parametrize(
    "why",
    [
        "1 samples and 0 shards could not be read; 0 samples and 3 shards may be set aside. The last was sample 13: "
        "JSONDecodeError: Expecting value.",
        "None of the 8 samples of rank 1 in this batch could be read; the last: torch.OutOfMemoryError.",
    ],
)
def test_data_that_a_loader_could_not_read_needs_review_and_is_not_tried_again(why: str) -> None:
    line = f"trainmaster.data.quarantine.NeedsReview: {why}"
    log = f"Traceback (most recent call last):\n  File loop.py, line 7\n{line}\n"
    assert cause_in(log) == Cause(EndReason.DATA_REVIEW, line)
    assert not ENDS[EndReason.DATA_REVIEW].retried
