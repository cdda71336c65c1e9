export { Homeward, newKey } from './client.js';
export { HomewardError } from './error.js';
export { verifyWebhook, WebhookError } from './webhook.js';
