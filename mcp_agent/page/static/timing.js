// Work that is done again and again while something is shown.

/** Call `work` now and again a while after each time it has ended. Returns a function that ends it. */
export function repeat(work, pauseMs) {
  let timer;
  let isOver = false;
  (async () => {
    while (!isOver) {
      await work();
      if (!isOver)
        await new Promise((resolve) => {
          timer = setTimeout(resolve, pauseMs);
        });
    }
  })();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}
