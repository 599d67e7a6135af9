// Server-sent events over fetch, which unlike EventSource can send the header of the console, be paused, and go on after
// the last event on whichever node answers next.

import { ApiError, headers, toError } from "./api";

export interface Message {
  id: string | null;
  event: string;
  data: string;
}

interface Watch {
  onMessage: (message: Message) => boolean | void; // true: it is over
  onState: (state: "live" | "reconnecting") => void;
  onError?: (error: ApiError) => void;
}

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15_000;
const STEADY_MS = 5_000; // what goes on for so long was no connection that ends at once
const SILENCE_MS = 45_000; // the server says something every 15 seconds
const FINAL = new Set(["permission_denied", "task_not_found", "invalid_request"]); // whatever a proxy says is not

/** Follow a stream until `stop` is called or a message ends it. Returns `stop`. */
export function follow(path: string, watch: Watch, after: string | null = null): () => void {
  const stopped = new AbortController();
  let last = after;
  let pause = FIRST_PAUSE_MS;

  const run = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      const begun = Date.now();
      try {
        const isOver = await connect(path, last, stopped.signal, {
          onOpen: () => watch.onState("live"),
          onMessage: (message) => {
            if (message.id) last = message.id;
            return watch.onMessage(message);
          },
        });
        if (isOver) return;
      } catch (error) {
        if (stopped.signal.aborted) return;
        if (error instanceof ApiError) {
          watch.onError?.(error);
          if (error.isOver || FINAL.has(error.problem.code)) return;
        }
      }
      if (stopped.signal.aborted) return;
      watch.onState("reconnecting");
      if (Date.now() - begun > STEADY_MS) pause = FIRST_PAUSE_MS;
      await wait(pause * (0.7 + Math.random() * 0.6), stopped.signal);
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
  };
  void run();
  return () => stopped.abort();
}

interface Listening {
  onOpen: () => void;
  onMessage: (message: Message) => boolean | void;
}

async function connect(path: string, last: string | null, stop: AbortSignal, listening: Listening): Promise<boolean> {
  const silent = new AbortController();
  let watchdog = setTimeout(() => silent.abort(), SILENCE_MS);
  try {
    const answer = await fetch(path, {
      headers: headers({ Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) }),
      signal: AbortSignal.any([stop, silent.signal]),
      redirect: "error",
    });
    if (!answer.ok || !answer.body || !answer.headers.get("Content-Type")?.startsWith("text/event-stream")) throw await toError(answer);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new Parser();
    for (let isOpen = false; ; isOpen = true) {
      const { done, value } = await reader.read();
      if (done) return false;
      if (!isOpen) listening.onOpen(); // the server says something at once
      clearTimeout(watchdog);
      watchdog = setTimeout(() => silent.abort(), SILENCE_MS);
      for (const message of parser.feed(value)) {
        if (listening.onMessage(message)) {
          await reader.cancel();
          return true;
        }
      }
    }
  } finally {
    clearTimeout(watchdog);
  }
}

/** Cuts a stream of text into its messages. The server ends lines with \n alone. */
export class Parser {
  private rest = "";

  feed(text: string): Message[] {
    const blocks = (this.rest + text).split("\n\n");
    this.rest = blocks.pop() ?? "";
    return blocks.map(parseBlock).filter((message) => message !== null);
  }
}

function parseBlock(block: string): Message | null {
  const message: Message = { id: null, event: "message", data: "" };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(": ");
    const value = line.slice(colon + 2);
    if (line.startsWith("id: ")) message.id = value;
    else if (line.startsWith("event: ")) message.event = value;
    else if (line.startsWith("data: ")) message.data += value;
  }
  return message.data ? message : null;
}

function wait(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
