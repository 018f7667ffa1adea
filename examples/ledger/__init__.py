"""The files of `understudy demo`, which the wheel has as `understudy.demo`."""
