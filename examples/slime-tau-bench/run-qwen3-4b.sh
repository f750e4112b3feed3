#!/usr/bin/env bash
# GRPO on tau-bench retail with slime and Qwen3-4B, rollouts by trainable-agents. Two things differ from any other run of
# slime: the service that is started, and the functions that slime calls. docs/slime.md says what every setting becomes.
#
# Needs: slime and Megatron-LM, two GPUs, Node >= 20.19, the checkpoint in both formats, tau-bench's data, a key of the model
# that plays the user.
#   SLIME=~/slime CHECKPOINTS=~/checkpoints OPENAI_API_KEY=... bash run-qwen3-4b.sh

set -euo pipefail

SLIME=${SLIME:?the checkout of slime}
MEGATRON=${MEGATRON:-$SLIME/../Megatron-LM}
CHECKPOINTS=${CHECKPOINTS:?the folder with the checkpoints}
MODEL=${MODEL:-$CHECKPOINTS/Qwen3-4B-Instruct-2507}
TAU_BENCH=${TAU_BENCH:-./tau-bench-data}
USER_MODEL=${USER_MODEL:-openai/gpt-4o}
OUT=${OUT:-runs/qwen3-4b}
GPUS=${GPUS:-2}
HEAD_ADDRESS=${MASTER_ADDR:-127.0.0.1}
export TRAINABLE_AGENTS_URL=${TRAINABLE_AGENTS_URL:-http://127.0.0.1:8800}
export PYTHONUNBUFFERED=1

mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
[ -d "$TAU_BENCH" ] || npx trainable-agents prepare tau-bench --to "$TAU_BENCH"

# First: the service. It needs no address of an engine: every request of slime names its router.
npx trainable-agents serve --engine sglang --env tau-bench/retail --data "$TAU_BENCH" --model "$MODEL" \
  --user-model "$USER_MODEL" --concurrency 256 --listen "${TRAINABLE_AGENTS_URL#http://}" --out "$OUT/rollouts" \
  >"$OUT/service.log" 2>&1 &
service=$!
trap 'kill "$service" 2>/dev/null || true' EXIT
until curl --silent --fail --output /dev/null "$TRAINABLE_AGENTS_URL/ready"; do
  kill -0 "$service" 2>/dev/null || { cat "$OUT/service.log" >&2; exit 1; }
  sleep 1
done

for split in train dev; do
  python3 -m trainable_agents.prepare --split "$split" --output "$OUT/retail_${split}_tasks.jsonl"
done

# Defines MODEL_ARGS, the shape of the model.
source "$SLIME/scripts/models/qwen3-4B-Instruct-2507.sh"

# Second: what slime calls. By whole groups instead: --rollout-function-path trainable_agents.slime.generate_rollout
AGENT_ARGS=(
  --custom-generate-function-path trainable_agents.slime.generate
  --custom-reward-post-process-path trainable_agents.slime.post_process_rewards
)

DATA_ARGS=(
  --hf-checkpoint "$MODEL" --ref-load "${MODEL}_torch_dist" --load "$OUT/checkpoints" --save "$OUT/checkpoints"
  --save-interval 20 --prompt-data "$OUT/retail_train_tasks.jsonl" --input-key index --rollout-shuffle
  --eval-interval 5 --eval-prompt-data retail-dev "$OUT/retail_dev_tasks.jsonl" --n-samples-per-eval-prompt 1
  --eval-max-response-len 1024 --eval-top-k 1
)
ROLLOUT_ARGS=(
  --num-rollout 500 --rollout-batch-size 32 --n-samples-per-prompt 8 --global-batch-size 256 --balance-data
  --rollout-max-response-len 1024 --rollout-temperature 1 --rollout-top-p 1
  --dynamic-sampling-filter-path slime.rollout.filter_hub.dynamic_sampling_filters.check_reward_nonzero_std
  --rollout-num-gpus-per-engine 1 --sglang-mem-fraction-static 0.7
)
LEARNING_ARGS=(
  --advantage-estimator grpo --use-kl-loss --kl-loss-coef 0 --kl-loss-type low_var_kl --entropy-coef 0
  --eps-clip 0.2 --eps-clip-high 0.28 --use-tis
  --optimizer adam --lr 1e-6 --lr-decay-style constant --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.98
)
MEGATRON_ARGS=(
  --tensor-model-parallel-size 2 --sequence-parallel --recompute-granularity full --recompute-method uniform
  --recompute-num-layers 1 --use-dynamic-batch-size --max-tokens-per-gpu 9216 --attention-backend flash
  --attention-dropout 0 --hidden-dropout 0 --accumulate-allreduce-grads-in-fp32 --attention-softmax-in-fp32
)

ray start --head --node-ip-address "$HEAD_ADDRESS" --num-gpus "$GPUS" --disable-usage-stats
environment=$(printf '{"env_vars": {"PYTHONPATH": "%s", "CUDA_DEVICE_MAX_CONNECTIONS": "1", "TRAINABLE_AGENTS_URL": "%s"}}' \
  "$MEGATRON" "$TRAINABLE_AGENTS_URL")
cd "$SLIME"
ray job submit --address http://127.0.0.1:8265 --runtime-env-json "$environment" -- \
  python3 train.py --colocate --actor-num-nodes 1 --actor-num-gpus-per-node "$GPUS" --rollout-num-gpus "$GPUS" \
  "${MODEL_ARGS[@]}" "${DATA_ARGS[@]}" "${ROLLOUT_ARGS[@]}" "${LEARNING_ARGS[@]}" "${MEGATRON_ARGS[@]}" "${AGENT_ARGS[@]}"
