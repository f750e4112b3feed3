"""Tests of `trainable_agents.slime`, called as slime calls it, against the real service. With SLIME_REPO, slime's own modules
make the calls."""

from __future__ import annotations

import asyncio
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import slime_world  # noqa: E402
from rollout_service import RolloutService  # noqa: E402
from slime_world import PARAMS, DataSource, arguments, evaluation_set, make_sample, sglang_rollout  # noqa: E402
from trainable_agents.client import Client  # noqa: E402
from trainable_agents.errors import BadRequest, ConfigurationError, Unauthorized  # noqa: E402
from trainable_agents.slime import generate, generate_rollout, post_process_rewards  # noqa: E402
from trainable_agents.trainer_link import HELD, close_links  # noqa: E402

Sample = slime_world.Sample
Status = Sample.Status


async def until(look: Any) -> None:
    async with asyncio.timeout(60):
        while not await look():
            await asyncio.sleep(0.05)


class SlimeTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        asyncio.get_running_loop().set_debug(False)
        self.addAsyncCleanup(close_links)


class Slime(SlimeTest):
    service: RolloutService

    @classmethod
    def setUpClass(cls) -> None:
        cls.service = RolloutService("--split", "train", "--expert-noise", "0")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.service.close()

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.client = Client(self.service.url)
        self.addAsyncCleanup(self.client.aclose)
        self.args = arguments(self.service.url)

    async def info(self) -> dict[str, Any]:
        return dict(await self.client.info())

    def check_aligned(self, sample: Any) -> None:
        self.assertEqual(sample.response_length, len(sample.loss_mask))
        self.assertEqual(sample.response_length, len(sample.rollout_log_probs))
        self.assertGreater(len(sample.tokens), sample.response_length)
        self.assertEqual(sample.effective_response_length, sum(sample.loss_mask))
        sample._validate_response_metadata_lengths()

    async def test_a_sample_is_what_the_service_says(self) -> None:
        given = make_sample(3, 6, label="kept", session_id="kept", metadata={"mine": 1})
        sample = await generate(self.args, given, dict(PARAMS))
        self.assertIs(sample, given)
        self.check_aligned(sample)
        answer = await self.client.episode_samples(sample.metadata["episode_id"])
        [row], [episode] = answer["samples"], answer["episodes"]
        for name in ("tokens", "response", "response_length", "loss_mask", "rollout_log_probs", "weight_versions", "prompt"):
            self.assertEqual(getattr(sample, name), row[name], name)
        self.assertIn(1, sample.loss_mask)
        self.assertIn(0, sample.loss_mask)
        self.assertEqual((sample.status.value, sample.reward), (episode["outcome"], episode["reward"]))
        self.assertEqual((episode["task_index"], episode["split"]), (3, "train"))
        self.assertEqual((sample.index, sample.group_index, sample.rollout_id), (6, 1, 6))
        self.assertEqual((sample.label, sample.session_id, sample.metadata["mine"]), ("kept", "kept", 1))
        self.assertEqual(sample.metadata["source_name"], "bookshop")
        self.assertFalse(sample.remove_sample)

    async def test_equal_seeds_play_equal_episodes(self) -> None:
        first, second, other = [await generate(self.args, make_sample(5, index), dict(PARAMS)) for index in (9, 9, 10)]
        self.assertNotEqual(first.metadata["episode_id"], second.metadata["episode_id"])
        self.assertEqual(first.tokens, second.tokens)
        seeds = [(await self.client.episode(one.metadata["episode_id"]))["seed"] for one in (first, second, other)]
        self.assertEqual(seeds[0], seeds[1])
        self.assertNotEqual(seeds[0], seeds[2])

    async def test_32_at_once(self) -> None:
        samples = await asyncio.gather(*(generate(self.args, make_sample(n, n), dict(PARAMS)) for n in range(32)))
        self.assertEqual(len({sample.metadata["episode_id"] for sample in samples}), 32)
        for n, sample in enumerate(samples):
            self.assertEqual((sample.metadata["task_index"], sample.index), (n, n))
            self.check_aligned(sample)

    async def test_a_limit_truncates_and_is_graded(self) -> None:
        sample = await generate(self.args, make_sample(1), {**PARAMS, "max_new_tokens": 1})
        episode = await self.client.episode(sample.metadata["episode_id"])
        self.assertEqual(sample.status.value, episode["outcome"])
        self.assertEqual(sample.reward, episode["reward"])
        self.check_aligned(sample)

    async def test_evaluation_takes_its_split_and_metadata_go_first(self) -> None:
        self.args.trainable_agents_eval_split = "test"
        for evaluation, metadata, split in (
            (False, {}, "train"),
            (True, {}, "test"),
            (True, {"split": "train"}, "train"),
        ):
            sample = await generate(self.args, make_sample(0, metadata=metadata), dict(PARAMS), evaluation=evaluation)
            self.assertEqual(sample.metadata["split"], split)

    async def test_branches_come_as_lists_when_they_are_wanted(self) -> None:
        self.args.trainable_agents_branches = "list"
        [sample] = await generate(self.args, make_sample(2, 7), dict(PARAMS))
        self.assertEqual(sample.rollout_id, 7)

    async def test_what_cannot_be_met_is_said(self) -> None:
        for changed, params, kind, words in (
            ({"rollout_top_p": 0.9}, {}, ConfigurationError, "--rollout-top-p 1"),
            ({"rollout_top_k": 20}, {}, ConfigurationError, "--rollout-top-k -1"),
            ({"custom_reward_post_process_path": None}, {}, ConfigurationError, "slime.post_process_rewards"),
            ({"partial_rollout": True, "mask_offpolicy_in_partial_rollout": True}, {}, ConfigurationError, "by turn"),
            ({"trainable_agents_engine": "mine"}, {}, ConfigurationError, "router or service"),
            ({"trainable_agents_split": "nowhere"}, {}, BadRequest, "no split"),
            ({}, {"stop": ["</s>"]}, BadRequest, "stop"),
            ({"trainable_agents_engine": "router"}, {}, BadRequest, 'leave "engine" out'),
        ):
            args = arguments(self.service.url, **changed)
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                await generate(args, make_sample(0), {**PARAMS, **params})
        with self.assertRaisesRegex(ConfigurationError, "--input-key index"):
            await generate(self.args, make_sample("Hello"), dict(PARAMS))

    async def test_what_is_cancelled_is_cancelled_in_the_service(self) -> None:
        await self.client.pause()
        try:
            task = asyncio.create_task(generate(self.args, make_sample(4), dict(PARAMS)))
            await until(lambda: self.is_running(1))
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await until(lambda: self.is_running(0))
        finally:
            await self.client.resume()

    async def test_slime_aborts_and_the_episode_is_cancelled(self) -> None:
        state = sglang_rollout.GenerateState(self.args)
        await self.client.pause()
        try:
            task = asyncio.create_task(generate(self.args, make_sample(4), dict(PARAMS)))
            await until(lambda: self.is_running(1))
            state.aborted = True
            sample = await task
            await until(lambda: self.is_running(0))
        finally:
            state.reset()
            await self.client.resume()
        self.assertEqual((sample.status, sample.reward, sample.tokens), (Status.ABORTED, None, []))
        self.assertNotIn(HELD, sample.metadata)
        again = await generate(self.args, sample, dict(PARAMS))
        self.assertEqual(again.status, Status.COMPLETED)

    async def test_partial_rollouts_hold_the_episode_and_go_on_with_it(self) -> None:
        self.args.partial_rollout = True
        state = sglang_rollout.GenerateState(self.args)
        # A service that a stopped trainer left paused resumes with the first call of the next trainer.
        await self.client.pause()
        await generate(self.args, make_sample(4), dict(PARAMS))
        await self.client.pause()
        task = asyncio.create_task(generate(self.args, make_sample(4), dict(PARAMS)))
        await until(lambda: self.is_running(1))
        state.aborted = True
        sample = await task
        state.reset()
        held = sample.metadata[HELD]
        self.assertEqual(sample.status, Status.ABORTED)
        self.assertEqual((await self.info())["status"], "paused")
        sample = await generate(self.args, sample, dict(PARAMS))
        self.assertEqual((sample.status, sample.metadata["episode_id"]), (Status.COMPLETED, held))
        self.assertNotIn(HELD, sample.metadata)
        self.assertEqual((await self.info())["status"], "open")

    async def is_running(self, count: int) -> bool:
        info = await self.info()
        return info["running"] + info["waiting"] == count

    async def test_slimes_own_rollout_with_our_generate(self) -> None:
        args = arguments(
            self.service.url, over_sampling_batch_size=2, dynamic_sampling_filter_path="slime_world.keep_even_groups"
        )
        output = await asyncio.to_thread(sglang_rollout.generate_rollout, args, 0, DataSource(args))
        self.check_rollout(output)
        await until(lambda: self.is_running(0))

    async def test_a_rollout_by_groups(self) -> None:
        args = arguments(
            self.service.url, over_sampling_batch_size=2, dynamic_sampling_filter_path="slime_world.keep_even_groups"
        )
        source = DataSource(args)
        output = await asyncio.to_thread(generate_rollout, args, 0, source)
        self.check_rollout(output)
        self.assertEqual(source.buffer, [])
        for group in output.samples:
            self.assertEqual(len({sample.metadata["group_id"] for sample in group}), 1)
        await until(lambda: self.is_running(0))

    def check_rollout(self, output: Any) -> None:
        self.assertEqual([group[0].group_index % 2 for group in output.samples], [0, 0])
        self.assertEqual([len(group) for group in output.samples], [4, 4])
        self.assertGreaterEqual(output.metrics["rollout/dynamic_filter/drop_odd"], 1)
        for sample in [sample for group in output.samples for sample in group]:
            self.assertIn(sample.status, (Status.COMPLETED, Status.TRUNCATED))
            self.check_aligned(sample)

    async def test_what_a_rollout_by_groups_leaves_over_is_trained_by_the_next(self) -> None:
        args = arguments(self.service.url, partial_rollout=True, over_sampling_batch_size=6)
        source = DataSource(args)
        first = await asyncio.to_thread(generate_rollout, args, 0, source)
        self.assertEqual(len(first.samples), 2)
        self.assertEqual(len(source.buffer), 4)
        self.assertEqual((await self.info())["status"], "paused")
        held = {group[0].metadata[HELD] for group in source.buffer}
        second = await asyncio.to_thread(generate_rollout, args, 1, source)
        self.assertLessEqual({group[0].metadata["group_id"] for group in second.samples}, held)
        self.assertEqual(
            {sample.index for group in first.samples for sample in group}
            & {sample.index for group in second.samples for sample in group},
            set(),
        )
        await self.client.resume()
        await until(lambda: self.is_running(0))

    async def test_evaluation_is_slimes_own_with_our_generate(self) -> None:
        args = arguments(self.service.url, custom_generate_function_path=None, trainable_agents_eval_split="test")
        evaluation_set(args, [make_sample(n, n) for n in range(5)])
        output = await asyncio.to_thread(generate_rollout, args, 0, DataSource(args), evaluation=True)
        samples = output.data["dev"]["samples"]
        self.assertEqual(sorted(sample.metadata["task_index"] for sample in samples), [0, 1, 2, 3, 4])
        self.assertEqual({sample.metadata["split"] for sample in samples}, {"test"})
        self.assertEqual(output.data["dev"]["rewards"], [sample.reward for sample in samples])


class Rewards(unittest.TestCase):
    """The result of `post_process_rewards` for a batch."""

    def batch(self, *episodes: tuple[int, int, float, int], removed: tuple[int, ...] = ()) -> list[Any]:
        """Samples given as (group, episode, reward, number of samples); `removed` lists the failed episodes."""
        return [
            Sample(group_index=group, index=episode, rollout_id=episode, reward=reward, remove_sample=episode in removed)
            for group, episode, reward, count in episodes
            for _ in range(count)
        ]

    def normalised(self, args: Any, samples: list[Any]) -> list[float]:
        raw, rewards = post_process_rewards(args, samples)
        self.assertEqual(raw, [sample.reward for sample in samples])
        return [round(reward, 4) for reward in rewards]

    def test_an_episode_counts_once_and_its_group_alone(self) -> None:
        args = arguments("")
        # Two groups of 2; the first episode has three samples, so there are 6 rows although 4 were requested.
        samples = self.batch((0, 0, 1.0, 3), (0, 1, 0.0, 1), (1, 2, 1.0, 1), (1, 3, 1.0, 1))
        self.assertEqual(
            self.normalised(args, samples), [0.7071, 0.7071, 0.7071, -0.7071, 0.0, 0.0]
        )
        args.grpo_std_normalization = False
        self.assertEqual(self.normalised(args, samples), [0.5, 0.5, 0.5, -0.5, 0.0, 0.0])

    def test_what_failed_moves_no_mean(self) -> None:
        args = arguments("")
        samples = self.batch((0, 0, 1.0, 1), (0, 1, 1.0, 1), (0, 2, 0.0, 1), (1, 3, 1.0, 1), (1, 4, 0.0, 1), removed=(2, 4))
        self.assertEqual(self.normalised(args, samples), [0.0] * 5)

    def test_arguments_mean_what_they_mean_to_slime(self) -> None:
        samples = self.batch((0, 0, 1.0, 1), (0, 1, 0.0, 1))
        for changed, expected in (
            ({"advantage_estimator": "reinforce_plus_plus_baseline"}, [0.5, -0.5]),
            ({"advantage_estimator": "gspo"}, [0.7071, -0.7071]),
            ({"advantage_estimator": "ppo"}, [1.0, 0.0]),
            ({"rewards_normalization": False}, [1.0, 0.0]),
        ):
            with self.subTest(changed):
                self.assertEqual(self.normalised(arguments("", **changed), samples), expected)
        keyed = self.batch((0, 0, 1.0, 1), (0, 1, 0.0, 1))
        for sample in keyed:
            sample.reward = {"score": sample.reward}
        self.assertEqual(post_process_rewards(arguments("", reward_key="score"), keyed)[0], [1.0, 0.0])

    def test_a_sample_without_a_group_is_refused(self) -> None:
        with self.assertRaisesRegex(ConfigurationError, "no group_index"):
            post_process_rewards(arguments(""), [Sample(index=3, reward=1.0)])


class Engines(SlimeTest):
    """A service whose requests name the engine, and an unreachable engine."""

    service: RolloutService

    @classmethod
    def setUpClass(cls) -> None:
        cls.service = RolloutService("--engine", "sglang", "--model", "readable")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.service.close()

    async def test_failed_episodes_stand_in_their_place_and_train_nothing(self) -> None:
        args = arguments(self.service.url, trainable_agents_engine="router", trainable_agents_restarts=0)
        with self.assertLogs("trainable_agents.slime", "WARNING") as logged:
            sample = await generate(args, make_sample(0, 3), dict(PARAMS))
        self.assertIn("127.0.0.1:9", logged.output[-1])
        self.assertEqual((sample.status, sample.reward, sample.remove_sample), (Status.FAILED, 0.0, True))
        self.assertEqual(sum(sample.loss_mask), 0)
        self.assertGreater(sample.response_length, 0)
        sample._validate_response_metadata_lengths()

    async def test_a_rollout_ends_when_every_group_fails(self) -> None:
        args = arguments(self.service.url, trainable_agents_engine="router")
        wrong, logs = self.assertRaisesRegex(ConfigurationError, "groups in a row"), self.assertLogs("trainable_agents")
        with wrong, logs:
            await asyncio.to_thread(generate_rollout, args, 0, DataSource(args))


class Faults(SlimeTest):
    async def test_a_killed_service_that_comes_back_gives_every_call_its_episode_once(self) -> None:
        service = RolloutService("--concurrency", "16")
        self.addCleanup(service.close)
        args = arguments(service.url)
        client = Client(service.url)
        self.addAsyncCleanup(client.aclose)
        await client.pause()
        calls = [asyncio.create_task(generate(args, make_sample(n, n), dict(PARAMS))) for n in range(32)]

        async def are_all_in() -> bool:
            info = await client.info()
            return info["running"] + info["waiting"] == 32

        await until(are_all_in)
        await client.resume()
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        service.kill()
        ended = sum(call.done() for call in calls)
        self.assertLess(ended, 32)
        await asyncio.to_thread(service.start)
        samples = await asyncio.gather(*calls)
        ids = [sample.metadata["episode_id"] for sample in samples]
        self.assertEqual(len(set(ids)), 32)
        self.assertEqual(sorted(episode["id"] for episode in service.lines("episodes.jsonl")), sorted(ids))
        requests = [entry for entry in service.lines("requests.jsonl") if entry["type"] == "request"]
        self.assertEqual(len(requests), 32)
        for n, sample in enumerate(samples):
            self.assertEqual((sample.index, sample.metadata["task_index"], sample.status), (n, n, Status.COMPLETED))

    async def test_a_busy_service_is_asked_again_and_a_bad_token_is_not(self) -> None:
        service = RolloutService("--concurrency", "1", "--max-waiting", "2", token="right")
        self.addCleanup(service.close)
        args = arguments(service.url, trainable_agents_token="right")
        samples = await asyncio.gather(*(generate(args, make_sample(n, n), dict(PARAMS)) for n in range(12)))
        self.assertEqual(len({sample.metadata["episode_id"] for sample in samples}), 12)
        for token in (None, "wrong"):
            args.trainable_agents_token = token
            with self.assertRaisesRegex(Unauthorized, "TRAINABLE_AGENTS_TOKEN"):
                await generate(args, make_sample(0), dict(PARAMS))


if __name__ == "__main__":
    unittest.main()
